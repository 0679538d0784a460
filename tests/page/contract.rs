use deputize_core::Catalog;
use deputize_testkit::{block_on, check_tool};

#[test]
fn every_tool_keeps_its_contract() {
    for entry in Catalog::linked(&[my_tools::LINK]).unwrap().iter() {
        block_on(check_tool(&entry.tool)).unwrap();
    }
}
