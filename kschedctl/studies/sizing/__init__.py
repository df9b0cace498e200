"""Which nodes would a cluster's workloads need, had they all to be bought anew?"""
