"""`shardmill view`: pages to walk through a shard set, from a server on this machine.

server        the port, the token, the end
guard         which requests are answered, and what a browser may do with the answers
pages         from a request to a page
viewed_set    a set as pages show it: which records, and what of them
"""
