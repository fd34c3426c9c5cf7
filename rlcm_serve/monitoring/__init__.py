"""Live monitoring: labels of answers, the tests of certificates on them, and what alarms do."""
