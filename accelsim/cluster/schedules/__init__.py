"""Pipeline schedules: op lists by rank, the rules that play them, closed forms, pictures."""
