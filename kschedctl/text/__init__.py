"""Text for people: numbers and lists in words (`counts`), safe and readable messages (`printable`), and the version."""
