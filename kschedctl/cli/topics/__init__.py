"""What ``kschedctl help TOPIC`` prints."""
