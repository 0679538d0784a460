//! Functions that run in a page, with an element as `this`.

/// Brings an element into view and says whether a click reaches it: `click`, `script` for one
/// without a size, `gone`, `disabled`, or `covered` with what lies above it.
pub(crate) const PREPARE_CLICK: &str = r"function () {
  if (!this.isConnected) return { state: 'gone' };
  const element = this.nodeType === Node.ELEMENT_NODE ? this : this.parentElement;
  if (!element) return { state: 'gone' };
  if (element.disabled) return { state: 'disabled' };
  element.scrollIntoView({ block: 'center', inline: 'center', behavior: 'instant' });
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.height === 0) return { state: 'script' };
  const root = element.getRootNode();
  const rect = element.getClientRects()[0] || box;
  const hit = root.elementFromPoint(rect.left + rect.width / 2, rect.top + rect.height / 2);
  const labels = Array.from(element.labels || []);
  const reaches = (hit) => element.contains(hit) || hit.contains(element)
    || labels.some((label) => label.contains(hit));
  if (!hit || reaches(hit)) return { state: 'click' };
  const text = (hit.innerText || '').trim().slice(0, 80);
  return { state: 'covered', by: hit.tagName.toLowerCase() + (text ? ' ' + JSON.stringify(text) : '') };
}";

/// Clicks an element that has no size, such as a box that is drawn by its label.
pub(crate) const CLICK: &str = "function () { this.click(); }";

/// Prepares an element for a text: `insert` if it has the focus and all its text is selected, `done` if
/// it has the text, or why not.
pub(crate) const PREPARE_TYPE: &str = r"function (text) {
  if (!this.isConnected) return { state: 'gone' };
  const kind = (this.getAttribute && this.getAttribute('type') || '').toLowerCase();
  if (this.disabled || this.readOnly) return { state: 'disabled' };
  const changed = () => {
    this.dispatchEvent(new Event('input', { bubbles: true }));
    this.dispatchEvent(new Event('change', { bubbles: true }));
    return { state: 'done' };
  };
  if (this instanceof this.ownerDocument.defaultView.HTMLSelectElement) {
    const options = Array.from(this.options);
    const label = (option) => option.label.trim();
    const chosen = options.find((option) => label(option) === text.trim())
      || options.find((option) => option.value === text);
    if (!chosen || chosen.disabled) {
      return { state: 'no_option', by: options.slice(0, 30).map(label).join(', ') };
    }
    if (!this.multiple) this.selectedIndex = chosen.index;
    else chosen.selected = true;
    return changed();
  }
  const tag = this.tagName;
  if (tag === 'INPUT' && kind === 'file') return { state: 'file' };
  if (tag === 'INPUT' && ['button', 'checkbox', 'image', 'radio', 'reset', 'submit'].includes(kind)) {
    return { state: 'click' };
  }
  if (tag === 'INPUT' && ['color', 'date', 'datetime-local', 'month', 'range', 'time', 'week'].includes(kind)) {
    this.focus();
    const prototype = this.ownerDocument.defaultView.HTMLInputElement.prototype;
    Object.getOwnPropertyDescriptor(prototype, 'value').set.call(this, text);
    return this.value === text ? changed() : { state: 'bad_value', by: kind };
  }
  if (tag === 'INPUT' || tag === 'TEXTAREA') {
    this.scrollIntoView({ block: 'center', behavior: 'instant' });
    this.focus();
    this.select();
    return { state: 'insert' };
  }
  if (this.isContentEditable) {
    this.scrollIntoView({ block: 'center', behavior: 'instant' });
    this.focus();
    const range = this.ownerDocument.createRange();
    range.selectNodeContents(this);
    const selection = this.ownerDocument.defaultView.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    return { state: 'insert' };
  }
  return { state: 'no_field' };
}";
