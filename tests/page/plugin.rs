use std::sync::Arc;

use deputize_plugin_host::{Description, InProcessPlugin, PluginBoundary, PluginFile, entries};
use deputize_testkit::check_tool;

#[tokio::test]
async fn every_tool_of_the_plugin_keeps_its_contract() {
    let path = crate::library();
    let file = PluginFile::read(path.as_ref()).unwrap();
    let path = file.path().to_owned();
    let sha256 = file.sha256().to_owned();
    file.table().unwrap();
    let plugin: Arc<dyn PluginBoundary> = Arc::new(InProcessPlugin::new(path.clone(), sha256));
    let description = Description::parse(&plugin.describe().await.unwrap()).unwrap();
    for entry in entries(&description, &path, &plugin) {
        check_tool(&entry.tool).await.unwrap();
    }
}
