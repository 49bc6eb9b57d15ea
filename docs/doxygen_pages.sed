# The pages as Doxygen reads them: what a page links outside of docs/ is no part of the reference, so its path stays without
# the link. Headers are linked by their names.
s@\[[^]]*\](\.\./include/qinfer/\([^)]*\))@\1@g
s@\[[^]]*\](\.\./\([^)]*\))@\1@g
# Doxygen names places of pages otherwise.
s@\](\([a-z]*\.md\)#[^)]*)@](\1)@g
