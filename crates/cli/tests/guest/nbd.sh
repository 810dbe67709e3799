# Linux's own NBD client, and FUSE with loop under another kernel than the host's.
attach() { blocklab attach "$@" > log 2>&1 || fail "attach $*: $(cat log)"; }

attach a=part.toml b=wd-80g-5400 --socket s.sock --run '. ./lib.sh
    nbd-client -unix s.sock -N a -C 2 /dev/nbd0 > /dev/null || fail connect
    nbd-client -unix s.sock -N b /dev/nbd1 > /dev/null || fail "connect to the disk"
    same $(cat /sys/block/nbd0/size) 262144 size
    same $(queue nbd0 rotational)$(queue nbd1 rotational) 01 rotational
    verify /dev/nbd0; files /dev/nbd0
    dd if=/dev/nbd1 of=/dev/null bs=1M count=1 2> /dev/null || fail "read of the disk"
    nbd-client -d /dev/nbd0 && nbd-client -d /dev/nbd1'
seen discard
seen flush

attach part.toml --read-only --socket s.sock --run '. ./lib.sh
    nbd-client -unix s.sock /dev/nbd0 > /dev/null || fail connect
    same $(cat /sys/block/nbd0/ro) 1 "read only"
    dd if=/dev/zero of=/dev/nbd0 bs=4k count=1 oflag=direct 2> /dev/null && fail "it was written"
    nbd-client -d /dev/nbd0'

# A server that is killed gives errors, not a hang. Without a timeout the kernel's client waits for
# ever for answers to what it had sent, unless something new is asked for.
session part.toml --socket s.sock
nbd-client -unix s.sock -timeout 3 /dev/nbd0 > /dev/null || fail connect
fio --name=w --filename=/dev/nbd0 --direct=1 --ioengine=libaio --rw=randwrite --bs=4k --iodepth=32 \
    --time_based --runtime=60 --size=64M > fio.log 2>&1 &
writer=$!
sleep 1
kill -KILL $server
wait $writer && fail "the writer saw no error"
nbd-client -d /dev/nbd0 > /dev/null

attach part.toml --as loop --run '. ./lib.sh; verify $dev; files $dev'
losetup | grep -q blocklab && fail "a loop device is left"
true
