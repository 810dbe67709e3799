"""The page: one offline HTML file from a run directory."""
