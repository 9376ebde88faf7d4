"""What `ddptui doctor` has done in processes of its own: torch asked, ranks met, dependants killed."""
