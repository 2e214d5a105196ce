"""How short attention may be: distances taken away, what that costs, windows that fit. Public as es.windows."""
