// Replaces the live sections of a page by newer ones, which the edge sends as events. The page is
// complete without this script. The HTML in events is escaped by the edge, and the policy of the
// page lets no script in it run.
'use strict';
(() => {
  const ROWS_MAX = 100;
  const address = document.body.dataset.events;
  const state = document.getElementById('live-state');
  if (!address || !state) return;

  const pause = document.getElementById('pause');
  const rows = document.getElementById('request-rows');
  let source = null;
  let waiting = new Map();

  const say = text => { if (state.textContent !== text) state.textContent = text; };

  // Whether the reader has the focus or selected text inside of an element.
  const isInUse = element => {
    const selection = document.getSelection();
    const selects = selection && !selection.isCollapsed && selection.rangeCount > 0;
    return element.contains(document.activeElement) ||
      selects && selection.getRangeAt(0).intersectsNode(element);
  };

  const replace = () => {
    for (const [name, html] of waiting) {
      const element = document.getElementById('live-' + name);
      if (element && isInUse(element)) continue;
      waiting.delete(name);
      if (!element) continue;
      const places = [...element.querySelectorAll('.scroll')].map(box => box.scrollLeft);
      element.innerHTML = html;
      element.querySelectorAll('.scroll').forEach((box, index) => { box.scrollLeft = places[index] || 0; });
    }
  };

  const isPaused = () => pause !== null && pause.getAttribute('aria-pressed') === 'true';

  const addRows = ({ html, skipped }) => {
    document.getElementById('skipped').textContent = skipped;
    if (html === '') return;
    document.getElementById('no-requests')?.remove();
    rows.insertAdjacentHTML('afterbegin', html);
    while (rows.rows.length > ROWS_MAX) rows.deleteRow(-1);
  };

  const stop = () => {
    source?.close();
    source = null;
  };

  const start = () => {
    if (source || document.hidden || isPaused()) return;
    source = new EventSource(address);
    source.onopen = () => say('Live');
    source.onerror = () => {
      // A stream that has ended opens again by itself. One that was refused does not.
      if (source.readyState === EventSource.CLOSED) {
        stop();
        say('No live figures: reload the page.');
      } else {
        say('Connecting …');
      }
    };
    source.addEventListener('sections', event => {
      for (const [name, html] of Object.entries(JSON.parse(event.data))) waiting.set(name, html);
      replace();
    });
    source.addEventListener('requests', event => addRows(JSON.parse(event.data)));
  };

  if (pause) {
    pause.hidden = false;
    pause.addEventListener('click', () => {
      const isNowPaused = !isPaused();
      pause.setAttribute('aria-pressed', String(isNowPaused));
      pause.textContent = isNowPaused ? 'Go on' : 'Pause';
      if (isNowPaused) { stop(); say('Paused'); } else { start(); }
    });
  }
  document.addEventListener('focusout', () => setTimeout(replace));
  document.addEventListener('visibilitychange', () => { if (document.hidden) stop(); else start(); });
  window.addEventListener('pagehide', stop);
  start();
})();
