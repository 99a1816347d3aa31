"""What is asked of an envelope: backtests, counterfactuals, portfolios, uncertainty, scaling, synchrony."""
