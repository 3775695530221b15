"""What an administrator meets: poolers, certificates, passwords, privileges, failovers, with real programs."""
