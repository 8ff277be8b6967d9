"""What can be asked of the service: plain functions over a unit of work, each run as one transaction."""
