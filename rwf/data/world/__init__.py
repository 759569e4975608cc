"""The embedded world: symbols, how they are placed, the styles they are drawn in. Synthetic, for a first look."""
