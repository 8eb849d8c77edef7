.venv/bin/python - <<'PYTHON'
import sqlite3
with sqlite3.connect("/tmp/tmpdfgm5_ob/tenants.sqlite") as table:
    table.execute("UPDATE tenant_data SET subscription_plan = 'gold' WHERE tenant_id = 'tenant-01'")
PYTHON