//! Integers in the byte order of the machine that wrote the file.

/// The order of a file or section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The integer at `offset`, which must be within `bytes`, as for all three.
    #[inline]
    pub(crate) fn u16(self, bytes: &[u8], offset: usize) -> u16 {
        let field = array(bytes, offset);
        if self == Self::Little {
            u16::from_le_bytes(field)
        } else {
            u16::from_be_bytes(field)
        }
    }

    #[inline]
    pub(crate) fn u32(self, bytes: &[u8], offset: usize) -> u32 {
        let field = array(bytes, offset);
        if self == Self::Little {
            u32::from_le_bytes(field)
        } else {
            u32::from_be_bytes(field)
        }
    }

    #[inline]
    pub(crate) fn u64(self, bytes: &[u8], offset: usize) -> u64 {
        let field = array(bytes, offset);
        if self == Self::Little {
            u64::from_le_bytes(field)
        } else {
            u64::from_be_bytes(field)
        }
    }
}

#[inline]
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}
