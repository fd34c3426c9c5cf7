"""Whether a question resembles the calibration's: a p-value from the prompt's last state."""
