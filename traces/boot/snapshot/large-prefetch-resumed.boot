blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 89838080
last_instructions 84621180
start_instructions 56862080
reads 26
16093 1
16093 8 8
16093 32 175432
16093 8
16093 8192 16
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 8192 beside
16093 3384 beside
