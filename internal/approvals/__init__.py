"""Approvals by a second person: who gave an approval, recorded by admission, and which ones count."""
