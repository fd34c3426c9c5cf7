"""What every report is made of: content, templates, palette and style, panels, wording."""
