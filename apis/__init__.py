"""The kinds: one package per group, one module per kind; types only."""
