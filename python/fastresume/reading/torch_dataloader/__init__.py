"""What happens under torch's `DataLoader`: its workers, and who may iterate."""
