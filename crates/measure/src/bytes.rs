//! The structs that are shared with the kernel, as bytes. They hold only integers, and their
//! padding is a field of its own.

/// The bytes of a struct that is shared with the kernel, and has no padding that is not its own
/// field.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: the generated structs hold only integers, and their padding is explicit.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

/// A struct that the kernel wrote, and the bytes behind it.
#[expect(unsafe_code, reason = "shares structs with the kernel")]
pub fn read_prefix<T: Copy>(bytes: &[u8]) -> Option<(T, &[u8])> {
    let (own, behind) = bytes.split_at_checked(size_of::<T>())?;
    // SAFETY: the generated structs hold only integers: any bytes are valid, at any alignment.
    Some((
        unsafe { std::ptr::read_unaligned(own.as_ptr().cast()) },
        behind,
    ))
}
