"""Lists of URLs as a corpus: what their rows name is fetched while a unit is staged.

extractor   takes the URLs out of lists, and makes records of what was fetched
fetched     the records of a list, with what their URLs gave, in the order of the list
originals   what was fetched, kept for later builds
queue       requests ahead of the records, bounded in number and bytes
client      one URL: connections, redirects, limits, repetitions
hosts       places among the requests, and how hosts fail
rules       what is asked for and what is not
reasons     the reasons of the ledger, and which of them may pass
addresses   which addresses a connection may be opened to
"""
