"""Headroom under the peak of a region: demand, profiles, the screen."""
