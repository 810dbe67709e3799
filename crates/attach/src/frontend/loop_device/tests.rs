use super::wire::*;
use crate::frontend::linux::errno;
use crate::order::Command;

fn files() -> Vec<FileInfo> {
    let file = |name: &str, read_only, discard| FileInfo {
        name: name.into(),
        bytes: 1 << 20,
        block_bytes: 4096,
        discard,
        read_only,
    };
    vec![file("a", false, true), file("b", true, false)]
}

fn request(code: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let mut out = (40 + body.len() as u32).to_ne_bytes().to_vec();
    out.extend(code.to_ne_bytes());
    out.extend(77u64.to_ne_bytes());
    out.extend(node.to_ne_bytes());
    out.extend([0; 16]);
    out.extend(body);
    out
}

fn transfer(code: u32, node: u64, offset: u64, bytes: u32, data: &[u8]) -> Vec<u8> {
    let mut body = 0u64.to_ne_bytes().to_vec();
    body.extend(offset.to_ne_bytes());
    body.extend(bytes.to_ne_bytes());
    body.extend([0; 20]);
    body.extend(data);
    request(code, node, &body)
}

fn fallocate(node: u64, offset: u64, bytes: u64, mode: u32) -> Vec<u8> {
    let mut body = 0u64.to_ne_bytes().to_vec();
    body.extend(offset.to_ne_bytes());
    body.extend(bytes.to_ne_bytes());
    body.extend(mode.to_ne_bytes());
    body.extend([0; 4]);
    request(43, node, &body)
}

/// The error of a reply, and how much follows its header.
fn answer(input: &[u8]) -> (i32, usize) {
    match understand(input, &files()) {
        Ask::Reply(out) => {
            let number = |at: usize| i32::from_ne_bytes(out[at..at + 4].try_into().unwrap());
            assert_eq!(number(0) as usize, out.len());
            assert_eq!(out[8..16], 77u64.to_ne_bytes());
            (-number(4), out.len() - REPLY_HEADER_BYTES)
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_and_attributes_are_told() {
    assert_eq!(answer(&request(1, 1, b"a\0")), (0, 128));
    assert_eq!(answer(&request(1, 1, b"c\0")), (errno::NOENT, 0));
    assert_eq!(answer(&request(3, 1, &[0; 16])), (0, 104));
    assert_eq!(answer(&request(3, 3, &[0; 16])), (0, 104));
    assert_eq!(answer(&request(3, 4, &[0; 16])), (errno::NOENT, 0));
    assert_eq!(answer(&request(14, 2, &[0; 8])), (0, 16));
    assert_eq!(answer(&request(17, 1, &[])), (0, 80));
    assert_eq!(answer(&request(22, 2, &[0; 8])), (errno::NOSYS, 0));
    let mut init = Vec::new();
    [7u32, 45, 0, u32::MAX].iter().for_each(|value| init.extend(value.to_ne_bytes()));
    assert_eq!(answer(&request(26, 0, &init)), (0, 64));
    init[4] = 20;
    assert_eq!(answer(&request(26, 0, &init)), (errno::OPNOTSUPP, 0));
}

#[test]
fn what_is_for_the_device_reaches_it() {
    let files = files();
    let ask = |input: &[u8]| match understand(input, &files) {
        Ask::Device { unique: 77, file: 0, command, offset, bytes, data } => {
            (command, offset, bytes, data.len())
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(ask(&transfer(15, 2, 512, 4096, &[])), (Command::Read, 512, 4096, 0));
    let write = Command::Write { fua: false };
    assert_eq!(ask(&transfer(16, 2, 512, 3, &[1, 2, 3])), (write, 512, 3, 3));
    assert_eq!(ask(&request(20, 2, &[0; 16])), (Command::Flush, 0, 0, 0));
    // The kernel asks for a hole where it was to write zeroes, too, as for parts of a block.
    let hole = Command::WriteZeroes { fua: false, may_discard: true };
    assert_eq!(ask(&fallocate(2, 0, 1 << 20, 3)), (hole, 0, 1 << 20, 0));
    assert_eq!(ask(&fallocate(2, 512, 1024, 3)), (hole, 512, 1024, 0));
    let zeroes = Command::WriteZeroes { fua: false, may_discard: false };
    assert_eq!(ask(&fallocate(2, 0, 4096, 0x11)), (zeroes, 0, 4096, 0));
}

#[test]
fn what_cannot_be_done_is_refused() {
    let end = 1u64 << 20;
    for (input, error) in [
        (transfer(15, 2, end, 1, &[]), errno::INVAL),
        (transfer(15, 2, u64::MAX, 1, &[]), errno::INVAL),
        (transfer(15, 2, 0, DATA_MAX + 1, &[]), errno::INVAL),
        (transfer(16, 2, end - 1, 2, &[1, 2]), errno::NOSPC),
        (transfer(16, 2, 0, 3, &[1, 2]), errno::INVAL),
        (transfer(16, 3, 0, 1, &[1]), errno::ROFS),
        (fallocate(3, 0, 4096, 0x11), errno::ROFS),
        (fallocate(3, 0, 4096, 3), errno::OPNOTSUPP),
        (fallocate(2, 0, 1 << 33, 3), errno::INVAL),
        (fallocate(2, 0, 4096, 0), errno::OPNOTSUPP),
        (request(15, 2, &[0; 39]), errno::INVAL),
        (request(26, 0, &[0; 15]), errno::INVAL),
        (transfer(15, 9, 0, 1, &[]), errno::NOSYS),
    ] {
        assert_eq!(answer(&input), (error, 0), "{input:?}");
    }
    let mut longer = request(20, 2, &[0; 16]);
    longer.push(0);
    assert_eq!(answer(&longer), (errno::INVAL, 0));
    assert_eq!(understand(&[1; 39], &files()), Ask::Nothing);
    assert_eq!(understand(&request(2, 2, &[0; 8]), &files()), Ask::Nothing);
    assert_eq!(understand(&request(38, 0, &[]), &files()), Ask::Over);
}
