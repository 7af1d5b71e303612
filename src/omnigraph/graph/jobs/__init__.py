"""What every long job tells: its report, its stages and times, the versions it still reads."""
