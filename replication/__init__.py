"""How catalogs keep each other up to date, by authority and epoch."""
