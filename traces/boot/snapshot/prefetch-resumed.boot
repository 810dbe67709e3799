blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 67781120
last_instructions 64884501
start_instructions 29039695
reads 21
18201 1
18201 8 8
18201 32 132352
18201 8
18201 8192 16
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 8192 beside
18201 1264 beside
