# The headers as Doxygen reads them. The rules at the top keep their columns; plain comments after a declaration, a member
# or a constant belong to it; what is in angle brackets is text.
s@^/\*$@/** \\file\n * \\verbatim@
1,/^#ifndef/s@^ \*/$@ \\endverbatim */@
s@\([;,{]\)\( *\)/\* @\1\2/**< @
s@^\( *[A-Z][A-Z0-9_]* *= *[-0-9]*\)\( *\)/\* @\1\2/**< @
s@<\(/*\)\(tool_call\|think\|function=name\|parameter=key\)>@\\<\1\2\\>@g
s@\\u00@\\\\u00@g
