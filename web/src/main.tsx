import 'uplot/dist/uPlot.min.css';
import './styles/tokens.css';
import './styles/base.css';
import './styles/shell.css';
import './styles/parts.css';
import './styles/pages.css';
import './theme';
import { render } from 'preact';
import { App } from './app';
import { connect } from './live/feed';

render(<App />, document.getElementById('app')!);
void connect();
