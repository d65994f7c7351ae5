"""What writes make of a registry, spelled out naively from the text: an oracle for any node."""
