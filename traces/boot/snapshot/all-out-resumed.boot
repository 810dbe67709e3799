blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 68112896
last_instructions 65214143
start_instructions 29427892
reads 21
18053 1
18053 8 8
18053 32 133000
18053 8
18053 8192 16
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 8192 beside
18053 1912 beside
