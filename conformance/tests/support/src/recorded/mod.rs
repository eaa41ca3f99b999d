//! What reaches each function of a driver: a mock driver that records its calls, and the calls that both vendors have.

pub mod calls;
pub mod codes;
pub mod copies;
pub mod imports;
pub mod recorder;
