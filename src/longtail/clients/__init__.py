"""Models within other programs: a spaCy component and an MCP server. Each module needs the package that it is for."""
