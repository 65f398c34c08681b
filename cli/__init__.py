"""The command line `shardmill`; heavy imports only inside command bodies."""
