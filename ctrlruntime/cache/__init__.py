"""Informers and the store behind them: declared watches, indexes, read your own writes."""
