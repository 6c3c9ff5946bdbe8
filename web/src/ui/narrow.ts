// Whether there is only the width of a phone.

import { signal } from '@preact/signals';

const query = matchMedia('(max-width: 760px)');

export const narrow = signal(query.matches);
query.addEventListener('change', () => {
    narrow.value = query.matches;
});
