//! What Linux does with pages, and other systems do not: a port is this file.

use memmap2::MmapMut;

/// Asks for huge pages, which a system need not have: Miri has none.
#[cfg(all(target_os = "linux", not(miri)))]
pub fn ask_for_huge_pages(map: &MmapMut) {
    let _ = map.advise(memmap2::Advice::HugePage);
}

/// Makes a map as long as so many bytes, with zeros behind what it holds; returns whether it could. None is copied: the
/// system moves the pages.
#[cfg(target_os = "linux")]
pub fn lengthen(map: &mut MmapMut, bytes: usize) -> bool {
    // SAFETY: no file is below them that could be shorter, and nobody else has them.
    #[allow(unsafe_code, reason = "pages that can't be moved would be there twice while they are copied")]
    let moved = unsafe { map.remap(bytes, memmap2::RemapOptions::new().may_move(true)) };
    moved.is_ok()
}

/// Asks for nothing: pages are as the system has them.
#[cfg(any(not(target_os = "linux"), miri))]
pub fn ask_for_huge_pages(_map: &MmapMut) {}

/// Whether a map was made longer: the system can't.
#[cfg(not(target_os = "linux"))]
pub fn lengthen(_map: &mut MmapMut, _bytes: usize) -> bool {
    false
}
