"""Weights that come with the package, each with a card that says how they were made and how good they are."""
