blocklab boot recording 1
kernel vmlinuz-6.1.0-56-amd64
variant snapshot
file_bytes 88392192
last_instructions 82941278
start_instructions 32238100
reads 26
14102 1
14102 8 8
14102 32 172608
14102 8
14102 8192 16
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 8192 beside
14102 560 beside
