// SPDX-License-Identifier: Apache-2.0
// Refreshes regions, keys, copying and the theme. Every page works without it. A redirect is the login.
'use strict';
const root = document.documentElement;
const theme = () => root.dataset.theme ||
  (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
try { const kept = localStorage.getItem('theme'); if (kept) root.dataset.theme = kept; } catch { /* not allowed */ }

async function refresh() {
  if (document.hidden) return;
  const pages = new Map();
  for (const region of document.querySelectorAll('[data-refresh][id]')) {
    if (region.contains(document.activeElement)) continue;
    const url = region.dataset.refresh;
    if (!pages.has(url)) pages.set(url, await load(url));
    const fresh = pages.get(url)?.getElementById(region.id);
    if (!fresh || region.contains(document.activeElement)) continue;
    const old = region.querySelectorAll('details');
    fresh.querySelectorAll('details').forEach((each, n) => { each.open = old[n]?.open ?? false; });
    if (fresh.innerHTML !== region.innerHTML) region.innerHTML = fresh.innerHTML;
  }
}
async function load(url) {
  try {
    const answer = await fetch(url, { headers: { Accept: 'text/html' } });
    const isPage = answer.ok && !answer.redirected;
    root.toggleAttribute('data-stale', !isPage);
    return isPage ? new DOMParser().parseFromString(await answer.text(), 'text/html') : null;
  } catch { root.toggleAttribute('data-stale', true); return null; }
}

document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && event.target.id === 'search') event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, textarea, select')) return;
  const at = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!at) return;
  event.preventDefault();
  if (at.href) at.click(); else at.focus();
});
document.addEventListener('DOMContentLoaded', () => {
  const button = document.getElementById('theme');
  const show = () => { button.hidden = false; button.setAttribute('aria-pressed', theme() === 'dark'); };
  show();
  button.addEventListener('click', () => {
    root.dataset.theme = theme() === 'dark' ? 'light' : 'dark';
    try { localStorage.setItem('theme', root.dataset.theme); } catch { /* not allowed */ }
    show();
  });
  for (const each of document.querySelectorAll('[data-copy]')) {
    const text = each.textContent;
    each.hidden = !navigator.clipboard;
    each.addEventListener('click', async () => {
      const copied = navigator.clipboard.writeText(each.dataset.copy);
      each.textContent = await copied.then(() => 'Copied', () => 'Not allowed to copy');
      setTimeout(() => { each.textContent = text; }, 2000);
    });
  }
  const tick = async () => { await refresh(); setTimeout(tick, 2000); };
  if (document.querySelector('[data-refresh]')) setTimeout(tick, 2000);
});
