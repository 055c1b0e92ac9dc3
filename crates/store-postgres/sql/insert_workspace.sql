INSERT INTO workspaces (name) VALUES ($1) ON CONFLICT (name) DO NOTHING
