"""What every report is drawn with: colours, and files that are replaced together."""
