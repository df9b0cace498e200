"""The texts that ``kschedctl help TOPIC`` prints."""
