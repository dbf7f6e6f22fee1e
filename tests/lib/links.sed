# What a test says that it links, with the units of a folder one by one:
#     sed -n -f tests/lib/links.sed FILE...
s,^/\* links: \(.*\) \*/$,\1,
T
:unit
s/\([^ ]*\){\([^,}]*\),\([^}]*\)}/\1\2 \1{\3}/
t unit
s/[{}]//g
p
