"""How fast a stream is, as a whole and stage by stage."""
