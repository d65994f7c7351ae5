"""AsyncAPI documents of editions 2.x and 3.x as entities of the default model, and back."""
