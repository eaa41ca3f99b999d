//! A mock driver that records its calls, and expectations for the functions of both vendors.

pub mod calls;
pub mod codes;
pub mod copies;
pub mod images;
pub mod imports;
pub mod recorder;
pub mod values;
